/*
 * capture/dump.h - writes the process's own rings to a Trace Event JSON file. Internal.
 *
 * Each ring is opened as any reader would: where an agent holds it, it is only looked at.
 * Timestamps are microseconds with three decimals, by integer arithmetic.
 */
#ifndef MRD_CAPTURE_DUMP_H
#define MRD_CAPTURE_DUMP_H

#include <stdbool.h>
#include <stdint.h>

/* Copies the path. MERIDIAN_INVALID when it is empty or too long. */
int mrd_dump_set_file(const char *path);
void mrd_dump_set_period(int64_t period_ns);
int mrd_dump_now(bool finished);
/* Dumps (not finished) when the period has passed; returns at once otherwise. */
void mrd_dump_if_due(void);

#endif
