"""The model that main.c fits: a damped oscillation, and the squared error of its parameters on 40 measurements.

Writes model.c and model.h: the error, and its value with its gradient.
"""

import numpy as np

from adjoint import export

TIMES = np.linspace(0.0, 4.0, 40)


def error(parameters, measured):
    amplitude, decay, frequency, phase = parameters
    predicted = amplitude * np.exp(-decay * TIMES) * np.cos(frequency * TIMES + phase)
    return np.mean((predicted - measured) ** 2)


if __name__ == "__main__":
    export.c(error, np.ones(4), np.ones(40), path="model.c", derivatives="value_and_gradient")
