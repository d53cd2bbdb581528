/*
 * agent/guard/safe_create.h - creates files with our names in a directory where any user may create
 * files, and removes files of other users with these names. Threads: any.
 */
#ifndef MRD_AGENT_GUARD_SAFE_CREATE_H
#define MRD_AGENT_GUARD_SAFE_CREATE_H

#include <stdbool.h>

/* Removes the file with this name. A directory that is not empty is renamed and left to its user.
 * Returns false with errno. */
bool mrd_safe_create_clear(int dir_fd, const char *name);
/* Renames `fresh` to `name` and replaces any file of that name. Returns false with errno. */
bool mrd_safe_create_replace(int dir_fd, const char *fresh, const char *name);

#endif
