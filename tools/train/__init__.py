"""Scripts that trained the models shipped with the runner. No part of the wheel."""
