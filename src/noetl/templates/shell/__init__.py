"""Commands for `sh`: template values reach them as single arguments and never as code (DESIGN §8)."""
