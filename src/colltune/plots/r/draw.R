# Draws a table with ggplot2, in the colours of colltune.plots.predictions.
#
# Rscript --vanilla draw.R FIGURE FOLDER FORMAT WIDTH HEIGHT DPI
#   FIGURE  curves, errors
#   FORMAT  png, svg, pdf; WIDTH and HEIGHT are inches
#   reads   FOLDER/table.csv   the columns of colltune.models.plain_fit.curves or compared
#   writes  FOLDER/figure
# Ends with status 3 if the package ggplot2 is missing, with 4 if R was built without that format.

if (!requireNamespace("ggplot2", quietly = TRUE)) quit(status = 3)
suppressPackageStartupMessages(library(ggplot2))

given <- commandArgs(trailingOnly = TRUE)
figure <- given[1]
folder <- given[2]
format <- given[3]
width <- as.numeric(given[4])
height <- as.numeric(given[5])
dpi <- as.numeric(given[6])

table <- read.csv(
  file.path(folder, "table.csv"), encoding = "UTF-8", colClasses = c(configuration = "character")
)
colours <- c("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
# the order of the names' bytes, as in the matplotlib figure, whatever the locale
table$configuration <- factor(
  table$configuration, sort(unique(table$configuration), method = "radix")
)
learners <- setdiff(unique(table$learner), "measured")
named <- setNames(rep_len(colours, length(learners)), learners)
at_bottom <- theme_bw() + theme(legend.position = "bottom", legend.title = element_blank())
plainly <- function(values) format(values, trim = TRUE, drop0trailing = TRUE, scientific = FALSE)
ratios <- c(0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10)
powers <- function(values) parse(text = sprintf("2^%d", round(log2(values))))

curves <- function() {
  table$size <- pmax(table$msize_bytes, 1)
  predicted <- table[table$learner != "measured", ]
  measured <- table[table$learner == "measured", ]
  ggplot(predicted, aes(size, time_s * 1e6)) +
    geom_line(aes(colour = factor(learner, learners)), linewidth = 0.6) +
    geom_point(data = measured, size = 0.9) +
    facet_wrap(~configuration, ncol = 5) +
    scale_x_continuous(trans = "log2", breaks = 2^seq(0, 40, 5), labels = powers) +
    scale_y_log10(labels = plainly) +
    scale_colour_manual(values = named) +
    labs(x = "message size [bytes]", y = "time [\u00b5s]") +
    at_bottom
}

errors <- function() {
  table$ratio <- table$predicted_s / table$measured_s
  ends <- function(values) {
    at <- quantile(values, c(.05, .25, .5, .75, .95))
    setNames(at, c("ymin", "lower", "middle", "upper", "ymax"))
  }
  ggplot(table, aes(configuration, ratio, fill = factor(learner, learners))) +
    geom_hline(yintercept = 1, colour = "grey40") +
    stat_summary(fun.data = ends, geom = "boxplot", position = position_dodge(0.8), width = 0.68,
                 alpha = 0.6) +
    scale_y_log10(breaks = ratios, minor_breaks = NULL) +
    scale_fill_manual(values = named) +
    labs(x = NULL, y = "predicted / measured") +
    at_bottom +
    theme(axis.text.x = element_text(angle = 30, hjust = 1))
}

drawn <- switch(figure, curves = curves(), errors = errors(), stop("unknown figure ", figure))
file <- file.path(folder, "figure")
if (format == "pdf") {
  pdf(file, width, height)
} else if (!capabilities("cairo")) {
  quit(status = 4)
} else if (format == "svg") {
  svg(file, width, height)
} else {
  png(file, width, height, units = "in", res = dpi, type = "cairo")
}
print(drawn)
invisible(dev.off())
