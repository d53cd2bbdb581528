/*
 * cli/view/profile_db.h - opens profiles that are SQLite databases of an unknown origin, read-only
 *
 * A database is more than data. Its schema can name any function or file, its views may never end,
 * and a journal next to it makes SQLite change and remove files. So each database is opened as an
 * immutable file, a journal is ignored, and SQLite may only read.
 *
 * Threads: a connection belongs to one thread. The limits apply to the process.
 */
#ifndef MRD_CLI_VIEW_PROFILE_DB_H
#define MRD_CLI_VIEW_PROFILE_DB_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/clock.h"

#define MRD_PROFILE_DBS 10 /* maximum number of profiles in one connection */

typedef struct {
    /* Maximum CPU time of the process; 0 means no limit. Beyond the limit, the process ends with a
     * message and status 1. */
    mrd_dur_ns cpu;
    int64_t memory;    /* bytes that SQLite may allocate; beyond it a query fails */
    const char *label; /* beginning of messages on stderr, such as "meridian sql" */
} mrd_profile_db_limits;

/*
 * Opens n profiles, each a profile.sqlite or a directory that contains one, as the schemas p0, p1,
 * ... of one connection. Several profiles are joined by a view of each table, in which the
 * session_id of the second profile ends with #2, and so on. Prints a message on stderr for each
 * ignored journal. Close the connection with sqlite3_close. Errors: NOTFOUND, FORMAT (not a
 * database, or not a profile), LIMIT (too many), INVALID (a table that cannot be read), NOMEM.
 */
mrd_err mrd_profile_db_open(const char *const *paths, size_t n, const mrd_profile_db_limits *limits,
                            sqlite3 **ret_db, mrd_why *why);
/* Fills *why with the last error of the connection, and returns it: FORMAT, LIMIT (memory) or
 * INVALID. `what` begins the message. */
mrd_err mrd_profile_db_failed(sqlite3 *db, const char *what, mrd_why *why);

#endif
