"""Bodies of the gateway's requests and answers, beside those of the bus that it passes on as they are."""
