/* What a Cortex-M needs before main: the table that the processor reads at reset. newlib's _start does the rest. */
#include <stdint.h>

void _start(void);

static void stop(void) {
  for (;;) {
  }
}

static void reset(void) {
  *(volatile uint32_t *)0xE000ED88u |= UINT32_C(0xF00000); /* CPACR: switches the floating-point unit on */
  _start();
}

typedef struct {
  uint32_t *stack;
  void (*handlers[15])(void);
} vector_table;

extern uint32_t stack_top[];
__attribute__((section(".vectors"), used)) static const vector_table vectors = {
    stack_top, {reset, stop, stop, stop, stop, stop, 0, 0, 0, 0, stop, stop, 0, stop, stop}};
