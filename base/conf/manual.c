#include "base/conf/manual.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/obj.h"

enum { COLUMN = 34, WIDTH = 100 };

typedef enum { ASKED_NOTHING, ASKED_HELP, ASKED_ADVANCED, ASKED_MAN, ASKED_OPTIONS } asked;

/* Writes an option's value as the help shows it: " DIR", "[=WHEN]", or nothing. */
static void
value_text(const mrd_opt *opt, char *text, size_t size)
{
    const char *arg = opt->arg == NULL ? "VALUE" : opt->arg;

    if (opt->type == MRD_OPT_BOOL)
        *text = '\0';
    else if ((opt->flags & MRD_OPT_OPTIONAL) != 0)
        snprintf(text, size, "[=%s]", arg);
    else
        snprintf(text, size, " %s", arg);
}

/* Writes an option's default and its environment variable, like " (default 10s; MERIDIAN_X)".
 * Writes "" if there is neither. */
static void
default_text(const mrd_opt *opt, char *text, size_t size)
{
    bool def = opt->def != NULL && opt->type != MRD_OPT_BOOL && *opt->def != '\0';

    *text = '\0';
    if (def || opt->env != NULL)
        snprintf(text, size, " (%s%s%s%s)", def ? "default " : "", def ? opt->def : "",
                 def && opt->env != NULL ? "; " : "", opt->env == NULL ? "" : opt->env);
}

/* Prints words and breaks lines between them, starting at column `used`. Long lists without spaces
 * break after commas. */
static int
put_words(const char *p, int used, FILE *to)
{
    while (*p != '\0') {
        size_t blank = strspn(p, " "), word = strcspn(p + blank, " ");

        if (word > WIDTH - COLUMN)
            word = strcspn(p + blank, ", ") + 1;
        if (used + (int) (blank + word) > WIDTH && used > COLUMN) {
            fprintf(to, "\n%*s", COLUMN, "");
            used = COLUMN;
            p += blank;
            blank = 0;
        }
        used += fprintf(to, "%.*s", (int) (blank + word), p);
        p += blank + word;
    }
    return used;
}

static void
put_option(const mrd_opt *opt, FILE *to)
{
    char value[96], tail[512];
    int used;

    value_text(opt, value, sizeof(value));
    default_text(opt, tail, sizeof(tail));
    used = fprintf(to, "  %c%c%s --%s%s", opt->letter ? '-' : ' ', opt->letter ? opt->letter : ' ',
                   opt->letter ? "," : " ", opt->name, value);
    if (used >= COLUMN) {
        fputc('\n', to);
        used = 0;
    }
    fprintf(to, "%*s", COLUMN - used, "");
    (void) put_words(tail, put_words(opt->help, COLUMN, to), to);
    fputc('\n', to);
}

/* Returns the next option to print, starting at row *i of the table. Returns NULL at the end. If a
 * heading precedes the option, stores it in *ret_head, otherwise NULL. */
static const mrd_opt *
next_option(const mrd_manual *manual, bool advanced, size_t *i, const char **ret_head)
{
    *ret_head = NULL;
    while (*i < manual->rows) {
        const mrd_opt *opt = &manual->table[(*i)++];

        if (opt->type == MRD_OPT_HEAD)
            *ret_head = opt->help;
        else if (advanced ? mrd_opt_is_advanced(opt) : mrd_opt_is_listed(opt))
            return opt;
    }
    return NULL;
}

/* Prints the ordinary options or, with `advanced`, the advanced options, as aligned text. */
static void
put_options(const mrd_manual *manual, bool advanced, FILE *to)
{
    const char *head;
    const mrd_opt *opt;

    for (size_t i = 0; (opt = next_option(manual, advanced, &i, &head)) != NULL;) {
        if (head != NULL)
            fprintf(to, "\n%s\n", head);
        put_option(opt, to);
    }
}

void
mrd_manual_roff(const char *text, FILE *to)
{
    bool start = true;

    for (const char *p = text; *p != '\0'; p++) {
        if (start && (*p == '.' || *p == '\''))
            fputs("\\&", to);
        if (*p == '-')
            fputs("\\-", to);
        else if (*p == '\\')
            fputs("\\e", to);
        else if (*p == ',')
            fputs(",\\:", to); /* long lists break there */
        else
            fputc(*p, to);
        start = *p == '\n';
    }
}

void
mrd_manual_roff_head(const mrd_manual *manual, FILE *to)
{
    char title[64];
    size_t n = 0;

    snprintf(title, sizeof(title), "%s%s%s", manual->program, manual->command == NULL ? "" : "-",
             manual->command == NULL ? "" : manual->command);
    fprintf(to, ".TH ");
    for (; title[n] != '\0'; n++)
        fputc(toupper((unsigned char) title[n]), to);
    fprintf(to, " 1 \"\" \"Meridian %s\" \"Meridian\"\n.ad l\n.nh\n.SH NAME\n", MRD_RELEASE);
    mrd_manual_roff(title, to);
    fprintf(to, " \\- ");
    mrd_manual_roff(manual->what, to);
    fprintf(to, "\n.SH SYNOPSIS\n.B %s%s%s\n", manual->program, manual->command == NULL ? "" : " ",
            manual->command == NULL ? "" : manual->command);
    mrd_manual_roff(manual->usage, to);
    fputc('\n', to);
}

static void
roff_option(const mrd_opt *opt, FILE *to)
{
    char value[96], tail[512];

    value_text(opt, value, sizeof(value));
    default_text(opt, tail, sizeof(tail));
    fprintf(to, ".TP\n");
    if (opt->letter != 0)
        fprintf(to, "\\fB\\-%c\\fR, ", opt->letter);
    fprintf(to, "\\fB\\-\\-");
    mrd_manual_roff(opt->name, to);
    fprintf(to, "\\fR");
    mrd_manual_roff(value, to);
    fputc('\n', to);
    mrd_manual_roff(opt->help, to);
    mrd_manual_roff(tail, to);
    fputc('\n', to);
}

static void
put_page(const mrd_manual *manual, FILE *to)
{
    const char *head;
    const mrd_opt *opt;

    mrd_manual_roff_head(manual, to);
    fprintf(to, ".SH OPTIONS\n");
    for (size_t i = 0; (opt = next_option(manual, false, &i, &head)) != NULL;) {
        if (head != NULL) {
            fprintf(to, ".SS ");
            mrd_manual_roff(head, to);
            fputc('\n', to);
        }
        roff_option(opt, to);
    }
    if (manual->more != NULL) {
        fprintf(to, ".SH NOTES\n.nf\n");
        mrd_manual_roff(manual->more, to);
        fprintf(to, ".fi\n");
    }
    fprintf(to, ".SH EXIT STATUS\n0 done; 1 failed, or nothing usable; 2 wrong usage; 3 done, but "
                "something was incomplete.\n");
}

static void
put_flags(const mrd_manual *manual, FILE *to)
{
    const char *head;
    const mrd_opt *opt;

    for (size_t i = 0; (opt = next_option(manual, false, &i, &head)) != NULL;)
        fprintf(to, "--%s%s\n", opt->name, opt->type == MRD_OPT_BOOL ? "" : "=");
}

static asked
asked_by(int argc, char *const *argv, bool stop_at_word)
{
    static const struct {
        const char *word;
        asked what;
    } words[] = { { "--help", ASKED_HELP },
                  { "-h", ASKED_HELP },
                  { "--help=advanced", ASKED_ADVANCED },
                  { "--help=man", ASKED_MAN },
                  { "--help=options", ASKED_OPTIONS } };

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (stop_at_word && argv[i][0] != '-')
            break;
        for (size_t w = 0; w < MRD_COUNT(words); w++) {
            if (strcmp(argv[i], words[w].word) == 0)
                return words[w].what;
        }
    }
    return ASKED_NOTHING;
}

bool
mrd_manual_asked(const mrd_manual *manual, int argc, char *const *argv, bool stop_at_word, FILE *to)
{
    asked what = asked_by(argc, argv, stop_at_word);

    switch (what) {
    case ASKED_NOTHING:
        return false;
    case ASKED_MAN:
        put_page(manual, to);
        return true;
    case ASKED_OPTIONS:
        put_flags(manual, to);
        return true;
    case ASKED_ADVANCED:
    case ASKED_HELP:
        break;
    }
    fprintf(to, "usage: %s%s%s %s\n", manual->program, manual->command == NULL ? "" : " ",
            manual->command == NULL ? "" : manual->command, manual->usage);
    if (manual->command == NULL)
        fprintf(to, "\n%s.\n", manual->what);
    put_options(manual, what == ASKED_ADVANCED, to);
    if (manual->more != NULL && what == ASKED_HELP)
        fprintf(to, "\n%s", manual->more);
    return true;
}

int
mrd_manual_end(const char *program, int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "%s: the output could not be written: %s\n", program,
            errno == 0 ? "some of it is missing" : strerror(errno));
    return code == 0 ? 1 : code;
}
