#include "trace/import/import.h"

static const mrd_import_ops *const importers[] = {
#define MRD_IMPORT(ident) &mrd_import_##ident,
#include "trace/import/importers.def"
#undef MRD_IMPORT
    NULL /* ends the array, because without any importer an empty array would be invalid C */
};

const mrd_import_ops *
mrd_import_detect(mrd_str head, const char *name)
{
    const mrd_import_ops *best = NULL;
    int sure = 0;

    if (mrd_str_starts(head, "\xef\xbb\xbf")) /* skip a byte order mark */
        head = (mrd_str){ head.p + 3, head.len - 3 };
    head.len = head.len < MRD_PROBE_BYTES ? head.len : MRD_PROBE_BYTES;
    for (size_t i = 0; importers[i] != NULL; i++) {
        int s = importers[i]->probe(head, name);

        if (s > sure) {
            sure = s;
            best = importers[i];
        }
    }
    return best;
}
