"""The composition root: builds one broker out of its parts and owns every task, timer, child and signal."""
