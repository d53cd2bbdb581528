/*
 * trace/model/comm_group.h - the list of groups of ranks that communicate, in the catalog
 * (trace/model/catalog.h). Each member describes the group itself. A member may describe its groups
 * and have no events.
 */
#ifndef MRD_TRACE_COMM_GROUP_H
#define MRD_TRACE_COMM_GROUP_H

#include "trace/model/strtab.h"

typedef struct {
    uint32_t process;   /* the member that describes the group, an mrd_proc_id */
    mrd_sid name, what; /* name of the group, and what it is for */
    mrd_sid ranks;      /* list of the members' ranks, such as "[0, 1]"; may be cut or empty */
    /* number of the last operation of the group that this member entered, and of the last one that
     * completed at it; MRD_NONE if unknown */
    int64_t entered, completed;
} mrd_comm_group;

struct mrd_catalog;

void mrd_catalog_add_group(struct mrd_catalog *cat, const mrd_comm_group *group);
/* Returns the groups in the order of addition, borrowed until the next addition. */
const mrd_comm_group *mrd_catalog_groups(const struct mrd_catalog *cat, size_t *ret_n);

#endif
