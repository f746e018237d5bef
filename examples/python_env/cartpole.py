"""A pole on a cart, as a program that plays episodes for whoever writes to its stdin.

A request is the number of its bytes and then they: a seed, and four weights. A cart is
pushed to the side that the state, weighted, has the sign of. The answer, framed alike, is
the number of steps that the pole has stood, 500 at most. The equations and constants are
those of Barto, Sutton and Anderson (1983), as in Gym's CartPole-v1.

The argument is the chance with which an episode ends the program, as crashes do.
"""

import math
import os
import random
import struct
import sys


def episode(seed, weights):
    draw = random.Random(seed)
    x, v, angle, spin = (draw.uniform(-0.05, 0.05) for _ in range(4))
    for step in range(500):
        if abs(x) > 2.4 or abs(angle) > math.radians(12):
            return step
        right = x * weights[0] + v * weights[1] + angle * weights[2] + spin * weights[3] > 0
        force = 10.0 if right else -10.0
        sin, cos = math.sin(angle), math.cos(angle)
        push = (force + 0.05 * spin * spin * sin) / 1.1
        bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        speed = push - 0.05 * bend * cos / 1.1
        x, v, angle, spin = x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * spin, spin + 0.02 * bend
    return 500


def main():
    crash = float(sys.argv[1])
    while head := sys.stdin.buffer.read(4):
        (size,) = struct.unpack("<I", head)
        seed, *weights = struct.unpack("<Q4d", sys.stdin.buffer.read(size))
        steps = episode(seed, weights)
        if random.SystemRandom().random() < crash:
            os._exit(1)
        sys.stdout.buffer.write(struct.pack("<II", 4, steps))
        sys.stdout.buffer.flush()


main()
