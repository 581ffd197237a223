import"./c.565QUUW5.js";import"./c.QHIB4TKO.js";
