/* Switches callgrind's counter on and off. Outside of Valgrind, these functions do nothing. */
#include <valgrind/callgrind.h>

void count(void) { CALLGRIND_START_INSTRUMENTATION; }

/* Write the counted instructions to the next file, and begin again with 0. */
void stop(void) {
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS;
}
