"""
Measures of recall and of learning, and readers of data sets; imported by `memdb bench` alone.

`dataset` reads the format of docs/evaluation.md, `convert` makes it from public
data sets, `measuring` runs the questions, scores the answers and reports. `facts_set`
reads the format of docs/facts.md, `facts` tells it and judges what is found. No data
set is part of memdb.
"""
