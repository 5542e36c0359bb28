"""HTTP, server-sent events, WebSocket and GraphQL over the clients of `trunkline.platform`."""
