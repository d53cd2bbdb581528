/*
 * cli/term/progress.h - shows progress in one line on a terminal: name, amount, rate, remaining
 * time. Shows nothing if stderr is not a terminal. At most ten updates a second.
 */
#ifndef MRD_CLI_TERM_PROGRESS_H
#define MRD_CLI_TERM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct {
    bool on;
    mrd_local_ns start, last;
    /* amount at the first update; rate and remaining time are computed from here */
    uint64_t first;
    bool shown; /* an update was made, so `first` is valid */
    const char *verb;
    int width; /* number of columns that the line now occupies on the terminal */
} mrd_progress;

/* Initializes a progress line. `verb` is a word like "reading", and is borrowed. */
void mrd_progress_start(mrd_progress *progress, const char *verb);
/* Shows that `done` of `total` is finished, in `unit` ("B" for bytes, "events"). `total` 0 means
 * unknown. `what` is the name of the current file and may be NULL. */
void mrd_progress_show(mrd_progress *progress, uint64_t done, uint64_t total, const char *unit,
                       const char *what);
void mrd_progress_end(mrd_progress *progress); /* removes the line from the terminal */

#endif
