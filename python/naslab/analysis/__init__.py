"""Turns results into statements: intervals, change points, knees, validity."""
