"""What is wanted: lab.yaml as frozen typed values."""
