"""What everything else may use: readable text, function frames, tracebacks, copies of op attributes, weak collections."""
