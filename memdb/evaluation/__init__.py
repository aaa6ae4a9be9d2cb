"""
Measure how often recall finds the evidence, over a data set on disk.

Behind `memdb bench`. `dataset` reads the format of docs/evaluation.md, `convert`
makes it of public sets, `arms` names what is compared, `measuring` asks,
`scores` counts, and `report` prints. No data set is part of memdb.
"""
