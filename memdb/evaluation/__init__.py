"""
Recall measures and readers of data sets; imported by `memdb bench` alone.

`dataset` reads the format of docs/evaluation.md, `convert` makes it of public
data sets, `measuring` asks and scores, `report` prints. No data set is part of
memdb.
"""
