"""What a process tells about itself: figures, health, spans, words. Nothing here is part of the truth."""
