"""Family M: the measurements document, user.conf and the files beside them."""
