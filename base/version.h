/*
 * base/version.h - which build this is: the release, and the commit it was built from.
 *
 * The release is a constant of the build; the commit is known to the programs only and set by
 * each main, so that another commit recompiles three files and not all.
 * Threads: set before threads exist; then any.
 */
#ifndef MRD_BASE_VERSION_H
#define MRD_BASE_VERSION_H

#include <stddef.h>

#define MRD_COMMIT_MAX 64
#define MRD_BUILD_TEXT (MRD_COMMIT_MAX + 64)

/* Letters, digits and dashes are taken, at most 63; NULL or "": not known. */
void mrd_version_set_commit(const char *commit);
/* "9c807b6a2461", with "-dirty" behind it when the tree had changes; "" when not known. */
const char *mrd_version_commit(void);
/* "0.1.0 (9c807b6a2461)", or the release alone. Returns text. */
char *mrd_version_text(char text[MRD_BUILD_TEXT]);

#endif
