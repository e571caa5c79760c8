"""What each page shows and REST answers: values made of a snapshot, with the state and the age of each."""
