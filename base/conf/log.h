/*
 * base/conf/log.h - the log of the daemons and of the command line's -v. Only the programs and the
 * code in agent/ and aggregator/ write to the log. The libraries do not.
 *
 * A message is one line. It has time, level, program, id, sentence, and key=value pairs, as in
 *   2026-03-01T12:00:00.000Z WARN meridian-agent AGT-SPOOL-FULL Oldest batches dropped: batches=12
 *
 * Control characters are written as \xNN. So a foreign name cannot start a line. With `json` each
 * line is a JSON object. If an id repeats too often within a second, further messages with this id
 * are suppressed. The next message with this id states how many.
 *
 * ERROR: a request failed. WARN: the program continues, and the message says how. INFO: rare and
 * useful to an operator. DEBUG: at most once per batch. No message is written for a single event.
 * Threads: any. Not for signal handlers.
 */
#ifndef MRD_BASE_CONF_LOG_H
#define MRD_BASE_CONF_LOG_H

#include <stdbool.h>

typedef enum { MRD_LOG_ERROR, MRD_LOG_WARN, MRD_LOG_INFO, MRD_LOG_DEBUG } mrd_log_level;

/* Sets up the log. The caller keeps `program` for the life of the process. `fd` receives the lines,
 * usually 2. */
void mrd_log_init(const char *program, int fd, mrd_log_level level, bool json);
/* Writes one message. `id` is stable and in upper case, such as "AGG-SEQ-GAP". The format is
 * "Sentence: key=value key=value". */
void mrd_log(mrd_log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
