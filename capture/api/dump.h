/*
 * capture/api/dump.h - writes the process's own rings to a Trace Event JSON file. Internal.
 *
 * Each ring is opened as an agent opens it. A ring that an agent holds is only read, and its
 * records are not released. Timestamps are microseconds with three decimals, computed with
 * integers.
 */
#ifndef MRD_CAPTURE_API_DUMP_H
#define MRD_CAPTURE_API_DUMP_H

#include <stdbool.h>
#include <stdint.h>

/* Sets the path of the dump and copies it. Returns MERIDIAN_INVALID if it is empty or too long. */
int mrd_dump_set_file(const char *path);
void mrd_dump_set_period(int64_t period_ns);
int mrd_dump_now(bool finished);
/* Writes a dump (without finishing the file) if the period has passed. Otherwise returns at once. */
void mrd_dump_if_due(void);

#endif
