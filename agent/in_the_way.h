/*
 * agent/in_the_way.h - puts a file under a name of ours in a folder where everybody may make files:
 * what others made there under that name is removed.
 * Threads: any.
 */
#ifndef MRD_AGENT_IN_THE_WAY_H
#define MRD_AGENT_IN_THE_WAY_H

#include <stdbool.h>

/* Removes what has the name; a folder that is not empty gets another name, and stays its user's. False
 * with errno. */
bool mrd_in_the_way_clear(int dir_fd, const char *name);
/* Renames `fresh` to `name`, whatever has that name. False with errno. */
bool mrd_in_the_way_replace(int dir_fd, const char *fresh, const char *name);

#endif
