"""Ends the session of the process that this is run in: what follows makes its own."""

from pyspark.sql import SparkSession

session = SparkSession.getActiveSession()
assert session is not None
session.stop()
