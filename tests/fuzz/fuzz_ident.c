/* Fuzzes the parsers of /proc: environment, cgroup, status, command line, stat and time namespaces
 * of a hostile process. */
#include "hw/identity.h"
#include "hw/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_str text = { (const char *) data, size };
    mrd_proc_stat st;
    mrd_ident id;
    char path[1024];
    bool v2;

    mrd_ident_init(&id);
    mrd_ident_environ(&id, text);
    mrd_ident_status(&id, text);
    mrd_ident_cmdline(&id, text);
    mrd_ident_timens(&id, text);
    mrd_ident_cgroup(&id, text);
    (void) mrd_proc_parse_stat(text, &st);
    if (mrd_cgroup_parse(text, path, &v2) == MRD_OK)
        mrd_ident_cgroup(&id, mrd_str_of(path));
    return 0;
}
