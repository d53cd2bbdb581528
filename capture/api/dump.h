/*
 * capture/api/dump.h - writes the process's own rings to a Trace Event JSON file. Internal.
 *
 * The dump opens each ring as an agent does. If an agent has a ring open, the dump reads the ring
 * but does not release its records. Timestamps are microseconds with three decimals, computed with
 * integers.
 */
#ifndef MRD_CAPTURE_API_DUMP_H
#define MRD_CAPTURE_API_DUMP_H

#include <stdbool.h>
#include <stdint.h>

/* Sets the path of the dump. Copies the text. Returns MERIDIAN_INVALID if it is empty or too
 * long. */
int mrd_dump_set_file(const char *path);
void mrd_dump_set_period(int64_t period_ns);
int mrd_dump_now(bool finished);
/* Writes a dump if the dump period has passed. The file stays open for later dumps. */
void mrd_dump_if_due(void);

#endif
