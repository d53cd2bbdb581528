/* Makes texts for messages about collectives: the names of groups and operations, and the reasons
 * why a process is left out. */
#include <stdio.h>
#include <string.h>

#include "timesync/collective/collective_impl.h"

const char *
mrd_coll_called(const mrd_coll_options *options, uint64_t hash, char room[20])
{
    const char *text =
        options == NULL || options->text == NULL ? NULL : options->text(options->self, hash);

    snprintf(room, 20, "%016llx", (unsigned long long) hash);
    return text != NULL ? text : room;
}

mrd_err
mrd_coll_note(char **reasons, size_t process, const char *reason)
{
    if (reasons[process] == NULL)
        reasons[process] = strdup(reason);
    return reasons[process] == NULL ? MRD_NOMEM : MRD_OK;
}
