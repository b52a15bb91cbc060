"""Family A: the accuracy run: was the model good enough, on the whole data set."""
