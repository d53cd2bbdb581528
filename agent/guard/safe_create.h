/* agent/guard/safe_create.h - creates files with fixed names in a directory in which any user may
 * create files. If another user has created a file of that name, it is removed. All threads may
 * call these functions. */
#ifndef MRD_AGENT_GUARD_SAFE_CREATE_H
#define MRD_AGENT_GUARD_SAFE_CREATE_H

#include <stdbool.h>

/* Removes the file or empty directory with this name. A directory that is not empty is renamed
 * instead, and left to its user. Returns false with errno set on failure. */
bool mrd_safe_create_clear(int dir_fd, const char *name);
/* Renames `fresh` to `name`, and replaces anything that has this name. Returns false with errno set
 * on failure. */
bool mrd_safe_create_replace(int dir_fd, const char *fresh, const char *name);

#endif
