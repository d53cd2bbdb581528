/*
 * base/version.h - the version of this build: the release and the commit.
 *
 * The release is a constant of the build. Each program's main sets the commit, so that a new commit
 * recompiles only three files. Threads: main sets the commit before it creates threads. Then any
 * thread may read it.
 */
#ifndef MRD_BASE_VERSION_H
#define MRD_BASE_VERSION_H

#include <stddef.h>

#define MRD_COMMIT_MAX 64
#define MRD_BUILD_TEXT (MRD_COMMIT_MAX + 64)

/* Sets the commit. Keeps letters, digits and dashes, at most 63 characters. NULL or "" means
 * unknown. */
void mrd_version_set_commit(const char *commit);
/* Returns the commit, for example "9c807b6a2461", with "-dirty" appended if the source tree had
 * local changes. "" if unknown. */
const char *mrd_version_commit(void);
/* Writes release and commit, "0.1.0 (9c807b6a2461)", or the release alone if the commit is unknown.
 * Returns `text`. */
char *mrd_version_text(char text[MRD_BUILD_TEXT]);

#endif
