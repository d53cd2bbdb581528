/*
 * cli/term/progress.h - one line of progress on a terminal: name, amount, rate, remaining time. Silent
 * if stderr is not a terminal. At most ten updates a second.
 */
#ifndef MRD_CLI_TERM_PROGRESS_H
#define MRD_CLI_TERM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct {
    bool on;
    mrd_local_ns start, last;
    uint64_t first; /* amount that existed before: rates and remaining times count from here */
    bool shown;     /* `first` is valid */
    const char *verb;
    int width; /* of the line shown now */
} mrd_progress;

void mrd_progress_start(mrd_progress *progress, const char *verb); /* "reading": borrowed */
/* `done` of `total` in `unit` ("B" for bytes, "events"). `total` 0 means unknown. `what` may be
 * NULL. */
void mrd_progress_show(mrd_progress *progress, uint64_t done, uint64_t total, const char *unit,
                       const char *what);
void mrd_progress_end(mrd_progress *progress); /* clears the line */

#endif
