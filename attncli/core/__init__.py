"""Pure torch below attention: masks, metrics, rounding, modes; numbers in words and files of tensors."""
