/* Fits a damped oscillation to noisy measurements by gradient descent with momentum. The derivative is in model.c. */
#include <math.h>
#include <stdio.h>

#include "model.h"

enum { PARAMETERS = 4, TIMES = 40, STEPS = 4000 };

/* A number in (-1, 1), the same sequence on every machine. */
static double noise(void) {
  static uint32_t state = 1;
  state = state * UINT32_C(1664525) + UINT32_C(1013904223);
  return (double)(state >> 8) / 8388608.0 - 1.0;
}

int main(void) {
  static error_work work; /* all the memory that the model needs */
  double measured[TIMES], p[PARAMETERS] = {1.0, 0.2, 2.5, 0.0}, velocity[PARAMETERS] = {0}, gradient[PARAMETERS], value = 0;
  for (int i = 0; i < TIMES; ++i) {
    const double t = 4.0 * i / (TIMES - 1);
    measured[i] = 1.5 * exp(-0.4 * t) * cos(3.0 * t + 0.5) + 0.02 * noise();
  }
  for (int step = 0; step < STEPS; ++step) {
    if (error_value_and_gradient(p, measured, &value, gradient, &work) != 0) return 1;
    for (int k = 0; k < PARAMETERS; ++k) {
      velocity[k] = 0.9 * velocity[k] - 0.02 * gradient[k];
      p[k] += velocity[k];
    }
  }
  printf("error %.6f: amplitude %.3f, decay %.3f, frequency %.3f, phase %.3f\n", value, p[0], p[1], p[2], p[3]);
  return 0;
}
