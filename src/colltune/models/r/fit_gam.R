# Fits one generalised additive model per output: Gamma family, logarithmic link, mgcv's defaults
# (thin plate regression splines, GCV), as Hunold et al. (CLUSTER 2020, sec. IV-B).
#
# Rscript --vanilla fit_gam.R FOLDER
#   reads  FOLDER/data.csv    output, y, x1, x2, ...           one row per measurement
#          FOLDER/terms.csv   output, feature, k               k = 2: linear, more: s(x, k = k)
#   writes FOLDER/curves.csv  output, feature, x, value        each term at its distinct values;
#                                                              feature 0: the intercept
#          FOLDER/fitted.csv  output, y                        in the order of data.csv
#          FOLDER/errors.csv  output, message                  of the outputs that have no model
# Ends with status 3 if the package mgcv is missing.

if (!requireNamespace("mgcv", quietly = TRUE)) quit(status = 3)
suppressPackageStartupMessages(library(mgcv))

folder <- commandArgs(trailingOnly = TRUE)[1]
within <- function(name) file.path(folder, name)
data <- read.csv(within("data.csv"))
terms <- read.csv(within("terms.csv"))

formula_of <- function(wanted) {
  names <- paste0("x", wanted$feature)
  smooth <- ifelse(wanted$k > 2, sprintf("s(%s, k = %d)", names, wanted$k), names)
  as.formula(paste("y ~", if (length(smooth)) paste(smooth, collapse = " + ") else "1"))
}

# each term varies in its turn, the other features stay as in the first row
curves_of <- function(model, rows, wanted) {
  constant <- predict(model, rows[1, ], type = "terms")
  found <- data.frame(feature = 0, x = 0, value = attr(constant, "constant"))
  for (i in seq_len(nrow(wanted))) {
    name <- paste0("x", wanted$feature[i])
    at <- sort(unique(rows[[name]]))
    new <- rows[rep(1, length(at)), ]
    new[[name]] <- at
    term <- if (wanted$k[i] > 2) sprintf("s(%s)", name) else name
    value <- predict(model, new, type = "terms")[, term]
    found <- rbind(found, data.frame(feature = wanted$feature[i], x = at, value = value))
  }
  found
}

fitted_model <- function(output) {
  rows <- data[data$output == output, ]
  wanted <- terms[terms$output == output, ]
  model <- gam(formula_of(wanted), family = Gamma(link = "log"), data = rows)
  if (!all(is.finite(coef(model)))) stop("its coefficients are not finite")
  list(
    curves = data.frame(output = output, curves_of(model, rows, wanted)),
    fitted = data.frame(output = output, y = as.numeric(fitted(model)))
  )
}

exactly <- function(table) {
  for (name in names(table)) {
    if (is.double(table[[name]])) table[[name]] <- sprintf("%.17g", table[[name]])
  }
  table
}

curves <- list()
fitted <- list()
errors <- list()
for (output in unique(data$output)) {
  result <- tryCatch(fitted_model(output), error = function(problem) conditionMessage(problem))
  if (is.list(result)) {
    curves <- c(curves, list(result$curves))
    fitted <- c(fitted, list(result$fitted))
  } else {
    errors <- c(errors, list(data.frame(output = output, message = result)))
  }
}
write <- function(parts, name) {
  table <- if (length(parts)) exactly(do.call(rbind, parts)) else data.frame()
  write.csv(table, within(name), row.names = FALSE)
}
write(curves, "curves.csv")
write(fitted, "fitted.csv")
write(errors, "errors.csv")
