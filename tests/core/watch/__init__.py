"""What is wrong with a run though its log does not say so."""
