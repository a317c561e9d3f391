# colltune for R: measurements as a data frame, the models of colltune's learner `mgcv`, their plot.
# It needs R and its recommended package mgcv, nothing else. docs/howto/r.md shows how to use it.
#
#   source("colltune.R")
#   data <- colltune_data("measurements.csv.gz")
#   fit <- colltune_fit(data, "bcast")
#   predict(fit, data.frame(nodes = 34, ppn = 32, msize_bytes = 4096))   # seconds
#   plot(fit, nodes = 16, ppn = 4)
#
# colltune's learner runs the same file: Rscript --vanilla colltune.R FOLDER
#   reads  FOLDER/data.csv    output, y, x1, x2, ...       one row per measurement, y in seconds
#   writes FOLDER/curves.csv  output, feature, x, value    each term at its distinct values;
#                                                          feature 0: the intercept
#          FOLDER/fitted.csv  output, y                    in the order of data.csv
#          FOLDER/errors.csv  output, message              of the outputs that have no model
# It ends with status 3 if the package mgcv is missing.

.most_splines <- 10
.instance <- c("nodes", "ppn", "msize_bytes")

# --- measurements ---------------------------------------------------------------------------------

# A data frame, one row per launch, configuration and instance. `path` is one or more tidy CSV files
# (.csv, .csv.gz), or datasets (a folder or a .parquet file), for which `colltune data export` runs.
colltune_data <- function(path, colltune = "colltune") {
  if (length(path) == 1 && grepl("[.]csv([.]gz)?$", path)) return(.read_tidy(path))
  if (!nzchar(Sys.which(colltune))) {
    stop("no program ", colltune, "; name it: colltune_data(path, colltune = \"/path/to/colltune\")",
      call. = FALSE
    )
  }
  exported <- tempfile(fileext = ".csv")
  on.exit(unlink(exported))
  words <- c("data", "export", path, "--out", exported, "--quiet")
  # without the folders that R puts before the user's, in which another Python may lie
  folders <- strsplit(Sys.getenv("LD_LIBRARY_PATH"), ":", fixed = TRUE)[[1]]
  folders <- folders[!grepl("^/(usr/)?lib(64)?(/|$)", folders) & folders != R.home("lib")]
  libraries <- paste0("LD_LIBRARY_PATH=", shQuote(paste(folders, collapse = ":")))
  status <- system2(colltune, shQuote(words), stdout = FALSE, env = libraries)
  if (status != 0) stop("`colltune data export` ended with status ", status, call. = FALSE)
  .read_tidy(exported)
}

.read_tidy <- function(path) {
  if (!file.exists(path)) stop(path, ": no such file", call. = FALSE)
  text <- tryCatch(
    read.csv(path, colClasses = "character", check.names = FALSE),
    error = function(e) stop(path, ": no readable CSV: ", conditionMessage(e), call. = FALSE)
  )
  needed <- c("machine", "library", "library_version", "collective", "algorithm", .instance, "time_s")
  missing <- setdiff(needed, names(text))
  if (length(missing)) {
    stop(path, ": missing column ", paste(missing, collapse = ", "), call. = FALSE)
  }
  n <- nrow(text)
  filled <- function(name, value) if (name %in% names(text)) text[[name]] else rep(value, n)
  number <- function(name) suppressWarnings(as.numeric(filled(name, "")))
  data <- text[c("machine", "library", "library_version", "collective", "algorithm")]
  data$fabric <- filled("fabric", "")
  data$parameters <- .parameters(filled("parameters", ""), number("segsize_bytes"))
  data$configuration <- trimws(paste(data$algorithm, data$parameters))
  for (name in .instance) data[[name]] <- number(name)
  data$nprocs <- data$nodes * data$ppn
  data$launch <- filled("launch", "")
  data$status <- filled("status", "ok")
  data$n_reps <- number("n_reps")
  for (name in c("time_s", "time_mean_s", "time_min_s", "time_p90_s", "time_max_s")) {
    data[[name]] <- number(name)
  }
  timed <- data$status %in% c("ok", "abandoned")
  bad <- which(timed & !(is.finite(data$time_s) & data$time_s > 0))
  if (length(bad)) {
    stop(path, ", line ", bad[1] + 1, ": time_s is no positive time", call. = FALSE)
  }
  data
}

# the segment size is one of the parameters, which are sorted by name
.parameters <- function(parameters, segsize_bytes) {
  mapply(function(text, segsize) {
    parts <- strsplit(text, ",", fixed = TRUE)[[1]]
    if (!is.na(segsize) && !any(startsWith(parts, "segsize="))) {
      parts <- c(parts, sprintf("segsize=%.0f", segsize))
    }
    paste(sort(parts, method = "radix"), collapse = ",")
  }, parameters, segsize_bytes, USE.NAMES = FALSE)
}

# --- models ---------------------------------------------------------------------------------------

# mgcv's models of one collective, one for each configuration, as `colltune fit --learner mgcv
# --objective median` makes them. `data` is what colltune_data returns.
colltune_fit <- function(data, collective = unique(data$collective)) {
  .need_mgcv()
  if (length(collective) != 1 || !collective %in% data$collective) {
    known <- paste(unique(data$collective), collapse = ", ")
    stop("name one collective of the data: ", known, call. = FALSE)
  }
  cells <- .cells(data[data$collective == collective, ])
  names <- sort(unique(cells$configuration), method = "radix")
  models <- lapply(names, function(name) {
    rows <- cells[cells$configuration == name, ]
    .gam_of(rows$guess_s, .log_features(rows))
  })
  names(models) <- names
  fit <- list(collective = collective, models = models, cells = cells)
  structure(fit, class = "colltune_fit")
}

# the median over launches of each configuration on each instance; `time_s` is NA and `guess_s` a
# guess where it was left out because it is slow
.cells <- function(rows) {
  wrong <- unique(rows$configuration[rows$status == "wrong_result"])
  rows <- rows[!rows$configuration %in% wrong, ]
  timed <- rows[rows$status %in% c("ok", "abandoned"), ]
  if (!nrow(timed)) stop("no measurement has a time", call. = FALSE)
  by <- c("configuration", .instance)
  cells <- aggregate(timed["time_s"], timed[by], median)
  slow <- unique(rows[rows$status %in% c("timeout", "skipped"), by])
  key <- function(table, columns) do.call(paste, c(table[columns], sep = "|"))
  slow <- slow[!key(slow, by) %in% key(cells, by) &
    key(slow, .instance) %in% key(cells, .instance) &
    slow$configuration %in% cells$configuration, ]
  best_s <- tapply(cells$time_s, key(cells, .instance), min)
  lost <- tapply(cells$time_s / best_s[key(cells, .instance)], cells$configuration, max)
  guess_s <- best_s[key(slow, .instance)] * pmax(lost[slow$configuration], exp(1))
  cells$guess_s <- cells$time_s
  if (!nrow(slow)) return(cells)
  rbind(cells, cbind(slow, time_s = NA, guess_s = as.numeric(guess_s)))
}

.log_features <- function(table) {
  data.frame(
    log2_msize = log2(pmax(table$msize_bytes, 1)),
    log2_nodes = log2(table$nodes),
    log2_ppn = log2(table$ppn)
  )
}

# Gamma family, logarithmic link, mgcv's defaults (thin plate regression splines, GCV), as Hunold et
# al. (CLUSTER 2020, sec. IV-B): y (seconds) by the columns of x. Times are divided by their geometric
# mean. A feature of two values is linear, one that never varies has no effect.
.gam_of <- function(y, x) {
  unit <- exp(mean(log(y)))
  sizes <- .sizes(x)
  # mgcv's criterion is undefined where nothing varies
  if (max(y) <= min(y) * (1 + 1e-9) || !any(sizes > 0)) {
    return(list(gam = NULL, level = mean(y), sizes = 0 * sizes))
  }
  used <- names(x)[sizes > 0]
  smooth <- ifelse(sizes[used] > 2, sprintf("s(%s, k = %d)", used, sizes[used]), used)
  formula <- as.formula(paste("y ~", paste(smooth, collapse = " + ")))
  model <- gam(formula, family = Gamma(link = "log"), data = cbind(y = y / unit, x))
  if (!all(is.finite(coef(model)))) stop("its coefficients are not finite")
  list(gam = model, level = unit, sizes = sizes)
}

# mgcv's k of each feature, 0 for none: no more than it has distinct values, and fewer if there are
# fewer measurements than coefficients
.sizes <- function(x) {
  distinct <- vapply(x, function(values) length(unique(values)), 0L)
  sizes <- ifelse(distinct > 1, pmin(distinct, .most_splines), 0)
  while (any(sizes > 0) && 1 + sum(sizes[sizes > 0] - 1) > max(1, nrow(x) - 1)) {
    at <- which.max(sizes)
    sizes[at] <- if (sizes[at] > 2) sizes[at] - 1 else 0
  }
  sizes
}

.time_s <- function(model, x) {
  if (is.null(model$gam)) return(rep(model$level, nrow(x)))
  model$level * as.numeric(predict(model$gam, x, type = "response"))
}

# Predicted seconds: a row for each row of `newdata` (nodes, ppn, msize_bytes), a column for each
# configuration.
predict.colltune_fit <- function(object, newdata, ...) {
  x <- .log_features(newdata)
  times <- vapply(object$models, .time_s, numeric(nrow(x)), x = x)
  matrix(times, nrow(x), dimnames = list(NULL, names(object$models)))
}

# --- picture --------------------------------------------------------------------------------------

# Runtime over message size on one shape: every configuration thin, the default and what is predicted
# fastest thick, measured times as crosses. Without a guard: `colltune select` may keep the default.
plot.colltune_fit <- function(x, nodes, ppn, ...) {
  measured <- x$cells[x$cells$nodes == nodes & x$cells$ppn == ppn & !is.na(x$cells$time_s), ]
  sizes <- range(pmax(x$cells$msize_bytes, 1))
  sizes <- 2^seq(log2(sizes[1]), log2(sizes[2]), length.out = 60)
  times <- predict(x, data.frame(nodes = nodes, ppn = ppn, msize_bytes = sizes))
  fastest <- max.col(-times, ties.method = "first")
  chosen_s <- times[cbind(seq_along(sizes), fastest)]
  title <- sprintf("MPI_%s, %gx%g", sub("^(.)", "\\U\\1", x$collective, perl = TRUE), nodes, ppn)
  plot(range(sizes), range(times, measured$time_s),
    type = "n", log = "xy", axes = FALSE, main = title, xlab = "message size", ylab = "runtime", ...
  )
  octaves <- seq(ceiling(log2(sizes[1])), log2(max(sizes) * 2), by = 1)
  across <- 2^octaves[seq(1, length(octaves), by = 5)]
  upwards <- 10^(-9:3)
  abline(v = across, h = upwards, col = "grey90")
  box()
  axis(1, across, vapply(across, .size_text, ""))
  axis(2, upwards, vapply(upwards, .time_text, ""), las = 1)
  others <- colnames(times) != "default"
  matlines(sizes, times[, others, drop = FALSE], col = "grey72", lty = 1)
  looks <- list(default = "#d55e00", fastest = "black")
  if (!all(others)) lines(sizes, times[, !others], col = looks$default, lwd = 2.5, lty = 2)
  lines(sizes, chosen_s, col = looks$fastest, lwd = 2.5)
  names <- unique(colnames(times)[fastest])
  colours <- c("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442")
  fills <- setNames(rep_len(colours, length(names)), names)
  fills[names == "default"] <- "grey85"
  marked <- seq(1, length(sizes), by = 4)
  points(sizes[marked], chosen_s[marked], pch = 21, bg = fills[colnames(times)[fastest[marked]]])
  is_default <- measured$configuration == "default"
  best <- measured[measured$time_s == ave(measured$time_s, measured$msize_bytes, FUN = min), ]
  for (one in list(list(measured[is_default, ], looks$default), list(best, looks$fastest))) {
    points(pmax(one[[1]]$msize_bytes, 1), one[[1]]$time_s, pch = 4, col = one[[2]])
  }
  legend("topleft",
    c("predicted fastest", "default", "other configurations", "measured", names),
    col = c(unlist(looks[c("fastest", "default")]), "grey72", "grey30", rep("black", length(names))),
    lwd = c(2.5, 2.5, 1, NA, rep(NA, length(names))), lty = c(1, 2, 1, NA, rep(NA, length(names))),
    pch = c(NA, NA, NA, 4, rep(21, length(names))), pt.bg = c(rep(NA, 4), fills), bty = "n", cex = 0.8
  )
  invisible(data.frame(msize_bytes = sizes, fastest = colnames(times)[fastest], time_s = chosen_s))
}

.size_text <- function(bytes) {
  unit <- min(3, floor(log2(bytes) / 10))
  paste(bytes / 1024^unit, c("B", "KiB", "MiB", "GiB")[unit + 1])
}

.time_text <- function(seconds) {
  unit <- findInterval(seconds, c(1e-9, 1e-6, 1e-3, 1) * (1 - 1e-9))
  paste(signif(seconds / c(1e-9, 1e-6, 1e-3, 1)[unit], 3), c("ns", "us", "ms", "s")[unit])
}

# --- colltune's learner `mgcv` --------------------------------------------------------------------

.need_mgcv <- function() {
  if (!requireNamespace("mgcv", quietly = TRUE)) {
    stop("R has no package mgcv; on Debian: r-cran-mgcv", call. = FALSE)
  }
  suppressPackageStartupMessages(library(mgcv))
}

# each term varies in its turn, the other features stay as in the first row
.curves_of <- function(model, x) {
  if (is.null(model$gam)) return(data.frame(feature = 0, x = 0, value = log(model$level)))
  constant <- attr(predict(model$gam, x[1, ], type = "terms"), "constant")
  found <- data.frame(feature = 0, x = 0, value = constant + log(model$level))
  for (feature in which(model$sizes > 0)) {
    name <- names(x)[feature]
    at <- sort(unique(x[[name]]))
    new <- x[rep(1, length(at)), ]
    new[[name]] <- at
    term <- if (model$sizes[feature] > 2) sprintf("s(%s)", name) else name
    value <- predict(model$gam, new, type = "terms")[, term]
    found <- rbind(found, data.frame(feature = feature, x = at, value = value))
  }
  found
}

.fit_folder <- function(folder) {
  if (!requireNamespace("mgcv", quietly = TRUE)) quit(status = 3)
  .need_mgcv()
  within <- function(name) file.path(folder, name)
  data <- read.csv(within("data.csv"))
  exactly <- function(table) {
    for (name in names(table)) {
      if (is.double(table[[name]])) table[[name]] <- sprintf("%.17g", table[[name]])
    }
    table
  }
  parts <- list(curves = list(), fitted = list(), errors = list())
  for (output in unique(data$output)) {
    rows <- data[data$output == output, ]
    x <- rows[setdiff(names(rows), c("output", "y"))]
    result <- tryCatch(
      {
        model <- .gam_of(rows$y, x)
        list(curves = .curves_of(model, x), fitted = data.frame(y = .time_s(model, x)))
      },
      error = function(problem) list(errors = data.frame(message = conditionMessage(problem)))
    )
    for (name in names(result)) {
      parts[[name]] <- c(parts[[name]], list(data.frame(output = output, result[[name]])))
    }
  }
  for (name in names(parts)) {
    table <- if (length(parts[[name]])) exactly(do.call(rbind, parts[[name]])) else data.frame()
    write.csv(table, within(paste0(name, ".csv")), row.names = FALSE)
  }
}

if (sys.nframe() == 0) .fit_folder(commandArgs(trailingOnly = TRUE)[1])
