"""Pure words of the catalogue: tiers and CUDA versions."""
