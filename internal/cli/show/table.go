package show

import (
	"io"
	"strings"
)

// Column is a column of a Table.
type Column struct {
	Name  string
	Right bool // numbers stand at the right
	Flex  bool // it gives way where the screen is narrow
}

// Table is rows of text under a header. A column without any text is left out.
type Table struct {
	Columns []Column
	rows    [][]string
}

const (
	gap     = 2 // between columns
	minFlex = 8 // a column that gives way keeps so much
)

// Add adds a row, a cell for each column. Cells are made safe to print.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(t.Columns))
	for i := range row {
		if i < len(cells) {
			row[i] = Text(cells[i])
		}
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Print writes the table; nothing if it has no rows.
func (t *Table) Print(s *Screen) error {
	if len(t.rows) == 0 {
		return nil
	}
	shown := t.shown()
	width := t.fit(s, shown)
	var b strings.Builder
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = strings.ToUpper(c.Name)
	}
	for _, row := range append([][]string{names}, t.rows...) {
		line := ""
		for k, i := range shown {
			cell := s.Cut(row[i], width[i])
			pad := strings.Repeat(" ", max(0, width[i]-Width(cell)))
			if k > 0 {
				line += strings.Repeat(" ", gap)
			}
			if t.Columns[i].Right {
				line += pad + cell
			} else {
				line += cell + pad
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(s, b.String())
	return err
}

// shown are the columns that hold something.
func (t *Table) shown() []int {
	var shown []int
	for i := range t.Columns {
		for _, row := range t.rows {
			if row[i] != "" {
				shown = append(shown, i)
				break
			}
		}
	}
	return shown
}

// fit returns the columns' widths: as wide as their texts, and less for those
// that give way, the widest first, where the screen is too narrow.
func (t *Table) fit(s *Screen, shown []int) []int {
	width := make([]int, len(t.Columns))
	total := -gap
	for _, i := range shown {
		width[i] = Width(t.Columns[i].Name)
		for _, row := range t.rows {
			width[i] = max(width[i], Width(row[i]))
		}
		total += width[i] + gap
	}
	for s.Width > 0 && total > s.Width {
		widest := -1
		for _, i := range shown {
			if t.Columns[i].Flex && width[i] > minFlex && (widest < 0 || width[i] > width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		width[widest]--
		total--
	}
	return width
}
