# Checks the answer of the colltune service for a job and writes its parts into folders that exist.
# Nothing is written before all of it was read and found good. Variables: library ("openmpi"), shapes
# (those asked for, "4x8 4x4"), folder (where the job will find it), out (where to write), variables
# (the file of what a job may be told).

function refuse(why) {
    if (reason == "")
        reason = "line " NR ": " why
    exit 1
}

BEGIN {
    count = split(shapes, names, " ")
    for (i = 1; i <= count; i++)
        asked[names[i]] = 1
    while ((getline line < variables) > 0)
        if (split(line, word, " ") >= 3 && word[1] == library) {
            kind[word[3]] = word[2]
            values[word[3]] = word[4]
        }
}

# whether each part of a setting, "4" and "6" of "4:0-1024;6:1025-max", is among those listed
function is_listed(value, list,    part, at) {
    at = split(value, part, ";")
    if (!at)
        return 0
    for (; at > 0; at--) {
        sub(/:.*/, "", part[at])
        if (list != "#" && !index("|" list "|", "|" part[at] "|"))
            return 0
        if (list == "#" && (part[at] !~ /^[0-9]+$/ || length(part[at]) > 9))
            return 0
    }
    return 1
}

{
    bytes += length($0) + 1
    if (bytes > 4000000)
        refuse("more than 4 MB")
    if ($0 ~ /[^\t -~]/)
        refuse("no plain text")
    if (ended)
        refuse("text after the end")
}

left > 0 {
    text[shape, file] = text[shape, file] $0 "\n"
    left--
    next
}

NR == 1 {
    if ($0 != "colltune-job 1" && $0 != "colltune-job 2")
        refuse("this is not a job file of version 1 to 2")
    version = $2
    next
}

$1 == "arm" && NF == 2 && arm == "" && shape == "" && $2 ~ /^(tuned|candidate|control)$/ {
    arm = $2
    next
}

$1 == "bundle" && NF == 2 && bundle == "" && $2 ~ /^[0-9a-f]+$/ && length($2) == 64 {
    bundle = $2
    next
}

$1 == "library" && NF == 3 && !named {
    if ($2 != library)
        refuse("for another library")
    named = 1
    next
}

($1 == "user" || $1 == "harmless") && NF == 2 && $2 ~ /^[A-Za-z0-9_*?]+$/ && shape == "" {
    patterns[$1] = patterns[$1] (patterns[$1] == "" ? "" : " ") $2
    next
}

$1 == "shape" && NF == 2 {
    shape = $2
    if (!(shape in asked) || (shape in seen))
        refuse("a shape that was not asked for")
    seen[shape] = 1
    next
}

$1 == "file" && NF == 3 && shape != "" {
    file = $2
    if (index(file, shape "/") != 1)
        refuse("a file elsewhere")
    file = substr(file, length(shape) + 2)
    if (file !~ /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/ || file ~ /\.\./ || file == "exports")
        refuse("a file with an unexpected name")
    if ((shape, file) in text || $3 !~ /^[0-9]+$/ || length($3) > 6)
        refuse("a file twice, or of unexpected length")
    text[shape, file] = ""
    left = $3 + 0
    next
}

$1 == "set" && NF == 2 && shape != "" && arm != "control" {
    at = index($2, "=")
    name = substr($2, 1, at - 1)
    value = substr($2, at + 1)
    if (!at || length(value) > 4096 || value !~ /^[A-Za-z0-9_.,:;@+=\/-]*$/ || value ~ /\.\./)
        refuse("a setting of an unexpected form")
    if (!(name in kind))
        refuse("a variable that chooses no algorithms")
    if (kind[name] == "file" || value ~ /\//) {
        here = folder "/" shape "/"
        if (index(value, here) != 1 || !((shape, substr(value, length(here) + 1)) in text))
            refuse("a setting that names another file")
    }
    if (kind[name] == "value" && !is_listed(value, values[name]))
        refuse("a value that no release is told")
    if ((shape, name) in set)
        refuse("a setting twice")
    set[shape, name] = 1
    exports[shape] = exports[shape] name "=" value "\n"
    if (length(exports[shape]) > 65536)
        refuse("more settings than a job's environment should hold")
    next
}

$0 == "end" {
    ended = 1
    next
}

{ refuse("unexpected") }

function put(path, content) {
    printf "%s", content > path
    if (close(path))
        failed = 1
}

END {
    if (reason == "" && (!ended || !named || bundle == "" || (version == 2) != (arm != "")))
        reason = "it is not complete"
    if (reason != "") {
        print reason
        exit 1
    }
    put(out "/bundle", bundle "\n")
    if (arm != "")
        put(out "/arm", arm "\n")
    put(out "/deciding", (patterns["user"] == "" ? "*" : patterns["user"]) "\n")
    put(out "/harmless", patterns["harmless"] "\n")
    for (key in text) {
        split(key, part, SUBSEP)
        put(out "/" part[1] "/" part[2], text[key])
    }
    for (shape in seen)
        put(out "/" shape "/exports", exports[shape])
    if (failed) {
        print "cannot be written"
        exit 1
    }
}
