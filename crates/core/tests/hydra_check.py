"""Reads Hydra overrides as JSON texts, one a line; answers what the real parser made of each, one a line.

Values are tagged, so that 1, 1.0, "1" and a sweep cannot be taken for each other; floats are their bits.
"""

import json
import math
import struct
import sys

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Sweep


def tagged(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": "nan" if math.isnan(value) else struct.pack(">d", value).hex()}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, list):
        return [tagged(item) for item in value]
    if isinstance(value, dict):
        return {"table": [[tagged(key), tagged(item)] for key, item in value.items()]}
    kind = "sweep" if isinstance(value, Sweep) else "other"
    return {kind: repr(value)}


def answer(parser, text):
    try:
        override = parser.parse_override(text)
        return {"key": override.get_key_element(), "value": tagged(override.value())}
    except Exception as error:  # a parser that crashes is an answer too
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    parser = OverridesParser.create()
    for line in sys.stdin.buffer:
        print(json.dumps(answer(parser, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
