"""Keys and values that every zone may write, converging everywhere."""
