"""Guards: the operations of an update whose only job is protection; found, and taken out."""
