"""The demonstration: the main job on real servers and real data, and the servers that the tests share with it."""
