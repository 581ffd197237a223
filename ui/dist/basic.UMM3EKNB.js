import"./c.NBHSRUGG.js";import"./c.JX476QQJ.js";
