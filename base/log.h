/*
 * base/log.h - the log of the daemons and of the command line's -v. Libraries below agent/ and
 * aggregator/ do not log.
 *
 * One line per message: time, level, program, an id, a message, then key=value pairs:
 *   2026-03-01T12:00:00.000Z WARN meridian-agent AGT-SPOOL-FULL Oldest batches dropped: batches=12
 * Control characters in it are shown as \xNN: a name from outside cannot begin a line of its own.
 * With `json` each line is a JSON object. A message id that repeats within a second is held
 * back; the next one that passes says how many were not shown.
 *
 * ERROR what was asked was not done. WARN we carried on, and say how. INFO rare, useful to an
 * operator. DEBUG at most once per batch. Nothing per event. Threads: any. Never call from a signal
 * handler.
 */
#ifndef MRD_BASE_LOG_H
#define MRD_BASE_LOG_H

#include <stdbool.h>

typedef enum { MRD_LOG_ERROR, MRD_LOG_WARN, MRD_LOG_INFO, MRD_LOG_DEBUG } mrd_log_level;

/* program is borrowed for ever. fd is where lines go (2). */
void mrd_log_init(const char *program, int fd, mrd_log_level level, bool json);
/* id: stable, upper case, e.g. "AGG-SEQ-GAP". The text after it is "Sentence: key=value key=value".
 */
void mrd_log(mrd_log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
