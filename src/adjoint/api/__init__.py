"""The public transforms: functions in, functions out."""
